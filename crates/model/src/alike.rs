//! Values that many hold and hardly anybody changes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// One value in many places. Read it as if it were the value itself; whoever changes it gets a copy of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Common<T>(Arc<T>);

impl<T> Common<T> {
    pub fn as_arc(&self) -> &Arc<T> {
        &self.0
    }

    /// Whether it is the very same value, and nobody has asked to change it.
    pub fn is(&self, other: &Arc<T>) -> bool {
        Arc::ptr_eq(&self.0, other)
    }
}

impl<T> From<T> for Common<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> From<Arc<T>> for Common<T> {
    fn from(value: Arc<T>) -> Self {
        Self(value)
    }
}

impl<T> Deref for Common<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Common<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<'a, T> IntoIterator for &'a Common<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (&*self.0).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_changes_a_common_value_changes_only_their_own() {
        let mut mine: Common<Vec<u8>> = vec![1].into();
        let yours = mine.clone();
        assert!(Arc::ptr_eq(mine.as_arc(), yours.as_arc()));
        mine.push(2);
        assert_eq!((&*mine, &*yours), (&vec![1, 2], &vec![1]));
    }
}
