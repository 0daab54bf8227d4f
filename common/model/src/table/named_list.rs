//! Values by name, in the order of the model file.

use serde::ser::{Serialize, Serializer};

/// Values by name, in the order of the model file. Two lists are equal whatever their order. Serialized as a map.
#[derive(Clone, Debug)]
pub struct NamedList<T>(Vec<(String, T)>);

impl<T> NamedList<T> {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Whether it has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &T)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<T> Default for NamedList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> PartialEq for NamedList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl<N: ToString, T> FromIterator<(N, T)> for NamedList<T> {
    /// If a name comes twice, the first place and the last value count.
    fn from_iter<I: IntoIterator<Item = (N, T)>>(values: I) -> Self {
        let mut list = Self::default();
        for (name, value) in values {
            let name = name.to_string();
            match list.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None => list.0.push((name, value)),
            }
        }
        list
    }
}

impl<T: Serialize> Serialize for NamedList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
