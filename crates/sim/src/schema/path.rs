//! Where a check stands in an object. It is written out only when there is an error to report, so it costs nothing else.

#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    /// An entry of a map.
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

/// How the API server writes the path of the whole object.
const WHOLE_OBJECT: &str = "<nil>";

impl<'a> Path<'a> {
    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub(super) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    /// As checks of the structure write it in their messages: entries of maps look like fields.
    pub(super) fn dotted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, |text, key| {
            text.push('.');
            text.push_str(key);
        });
        text
    }

    /// The field of an error that a check of the structure finds.
    pub(super) fn dotted_field(&self) -> String {
        let text = self.dotted();
        if text.is_empty() { WHOLE_OBJECT.to_owned() } else { text.trim_start_matches('.').to_owned() }
    }

    /// The field of an error that a rule or a check of a list finds: entries of maps stand in brackets.
    pub(super) fn bracketed_field(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, |text, key| {
            text.push('[');
            text.push_str(key);
            text.push(']');
        });
        if text.is_empty() { WHOLE_OBJECT.to_owned() } else { text }
    }

    fn write(&self, text: &mut String, write_key: fn(&mut String, &str)) {
        match self {
            Path::Root => {}
            Path::Field(parent, name) => {
                parent.write(text, write_key);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Path::Key(parent, key) => {
                parent.write(text, write_key);
                write_key(text, key);
            }
            Path::Index(parent, index) => {
                parent.write(text, write_key);
                text.push_str(&format!("[{index}]"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_maps_look_like_fields_to_the_structure_and_stand_in_brackets_for_rules() {
        let spec = Path::Root.field("spec");
        let limits = spec.field("limits");
        let entry = limits.key("cpu");
        assert_eq!(
            (entry.dotted_field(), entry.bracketed_field()),
            ("spec.limits.cpu".into(), "spec.limits[cpu]".into())
        );
        let item = spec.index(3);
        assert_eq!(item.field("key").bracketed_field(), "spec[3].key");
        assert_eq!(Path::Root.dotted_field(), "<nil>");
    }
}
