//! The counts that the scale subresource reads must be counts, whatever the schema says of them.

use serde_json::Value;

use super::error::{FieldError, FieldErrorKind, SchemaError};

pub(super) struct Scale {
    /// Of the counts that are wanted and that are there, as the definition writes them: `.spec.replicas`.
    paths: [String; 2],
}

impl Scale {
    pub(super) fn read(scale: &Value) -> Result<Option<Self>, SchemaError> {
        let Some(keywords) = scale.as_object() else { return Ok(None) };
        let known = ["specReplicasPath", "statusReplicasPath"];
        if let Some(keyword) = keywords.keys().find(|keyword| !known.contains(&keyword.as_str())) {
            return Err(SchemaError::new("the scale subresource", format!("the keyword `{keyword}` is not supported")));
        }
        let path = |name: &str| {
            let path = scale[name].as_str().filter(|path| path.starts_with('.')).map(str::to_owned);
            path.ok_or_else(|| SchemaError::new("the scale subresource", format!("`{name}` is not a path")))
        };
        Ok(Some(Self { paths: [path(known[0])?, path(known[1])?] }))
    }

    pub(super) fn check(&self, object: &Value, errors: &mut Vec<FieldError>) {
        for path in &self.paths {
            let (count, detail) = match count_at(object, path) {
                Err(problem) => (0, problem),
                Ok(count) if count < 0 => (count, "should be a non-negative integer".to_owned()),
                Ok(count) if count > i64::from(i32::MAX) => {
                    (count, format!("should be less than or equal to {}", i32::MAX))
                }
                Ok(_) => continue,
            };
            // The API server keeps the leading dot of the path.
            errors.push(FieldError::with_value(FieldErrorKind::Invalid, path.clone(), &count.into(), &detail));
        }
    }
}

/// The count at a path, zero if nothing is there, or what is wrong with what is there.
fn count_at(object: &Value, path: &str) -> Result<i64, String> {
    let mut place = object;
    for name in path.split('.').skip(1) {
        match place {
            Value::Object(fields) => match fields.get(name) {
                Some(member) => place = member,
                None => return Ok(0),
            },
            Value::Null => return Ok(0),
            other => return Err(format!("{path} accessor error: {other} is not an object")),
        }
    }
    place.as_i64().ok_or_else(|| format!("{path} accessor error: {place} is not an int64"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_not_negative_and_not_huge() {
        let paths = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"});
        let scale = Scale::read(&paths).unwrap().unwrap();
        let errors = |object: Value| {
            let mut errors = Vec::new();
            scale.check(&object, &mut errors);
            errors.iter().map(FieldError::to_string).collect::<Vec<_>>()
        };
        assert_eq!(errors(json!({"spec": {"replicas": 3}})), [""; 0]);
        assert_eq!(
            errors(json!({"spec": {"replicas": -1}, "status": {"nodes": 2_147_483_648_i64}})),
            [
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.nodes: Invalid value: 2147483648: should be less than or equal to 2147483647",
            ]
        );
        assert!(errors(json!({"spec": {"replicas": "3"}}))[0].contains("accessor error"));
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        assert!(Scale::read(&Value::Null).unwrap().is_none());
        assert!(Scale::read(&json!({"labelSelectorPath": ".x"})).is_err());
    }
}
