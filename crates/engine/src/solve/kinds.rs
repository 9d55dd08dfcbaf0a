//! Which pods of a question are alike in everything that matters. Whatever is worked out for one holds for all of its kind.

use std::rc::Rc;

use model::pod::Pod;

use super::hash::Known;

/// Pods of one namespace with equal labels and wants are of one manner; those with equal requests, too, are of one kind.
pub(crate) struct Kinds<'a> {
    /// The first pod of each kind.
    pub(crate) first: Vec<&'a Pod>,
    /// The kind of each pod.
    pub(crate) of_pod: Rc<Vec<usize>>,
    /// The first pod of each manner.
    pub(crate) first_of_manner: Vec<&'a Pod>,
    /// The manner of each kind.
    pub(crate) manner_of: Vec<usize>,
}

impl<'a> Kinds<'a> {
    pub(crate) fn of(pods: &[&'a Pod]) -> Self {
        let (mut first, mut first_of_manner) = (Vec::new(), Vec::new());
        let mut of_pod = Vec::with_capacity(pods.len());
        let mut manner_of = Vec::new();
        let (mut manners, mut kinds) = (Known::default(), Known::default());
        for pod in pods {
            let manner = manners.number((pod.namespace(), &pod.labels, &pod.wants));
            if manner == first_of_manner.len() {
                first_of_manner.push(*pod);
            }
            let kind = kinds.number((manner, &pod.requests));
            if kind == first.len() {
                first.push(*pod);
                manner_of.push(manner);
            }
            of_pod.push(kind);
        }
        Self { first, of_pod: Rc::new(of_pod), first_of_manner, manner_of }
    }
}

#[cfg(test)]
mod tests {
    use model::resources::Resources;

    use super::*;

    #[test]
    fn pods_are_of_one_kind_when_all_that_matters_is_equal() {
        let pod = |namespace: &str, name: &str| Pod::pending(namespace, name, Resources::default().with("cpu", 1));
        let mut labelled = pod("a", "labelled");
        labelled.labels.insert("app".into(), "x".into());
        let larger = Pod::pending("a", "larger", Resources::default().with("cpu", 2));
        let mut shy = pod("a", "shy");
        shy.wants.has_resource_claims = true;
        let all = [pod("a", "one"), pod("b", "elsewhere"), labelled, larger, shy, pod("a", "two"), pod("b", "again")];
        let kinds = Kinds::of(&all.iter().collect::<Vec<_>>());
        assert_eq!(*kinds.of_pod, [0, 1, 2, 3, 4, 0, 1]);
        assert_eq!(
            kinds.first.iter().map(|pod| &*pod.name.name).collect::<Vec<_>>(),
            ["one", "elsewhere", "labelled", "larger", "shy"]
        );
        assert_eq!(kinds.manner_of, [0, 1, 2, 0, 3], "size is no matter of manner");
        assert_eq!(
            kinds.first_of_manner.iter().map(|pod| &*pod.name.name).collect::<Vec<_>>(),
            ["one", "elsewhere", "labelled", "shy"]
        );
    }
}
