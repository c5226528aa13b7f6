//! The intermediate form: kinds and their types, independent of languages.

use serde_json::Value;

/// A struct of [`Model::structs`].
pub(crate) type StructId = usize;

/// An enumeration of [`Model::enums`].
pub(crate) type EnumId = usize;

/// All types of one file.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// One line for each source: the file's name, and the parts that were read.
    pub(crate) sources: Vec<String>,
    /// In output order.
    pub(crate) kinds: Vec<KindType>,
    /// In order of discovery: a kind before its parts.
    pub(crate) structs: Vec<Struct>,
    /// In order of discovery.
    pub(crate) enums: Vec<Enum>,
}

/// A kind.
#[derive(Debug)]
pub(crate) struct KindType {
    /// Empty for the core group.
    pub(crate) group: String,
    /// For example `v1`.
    pub(crate) version: String,
    /// For example `Team`.
    pub(crate) name: String,
    /// Its struct.
    pub(crate) root: StructId,
    /// Whether its objects are namespaced, if the source shows it.
    pub(crate) is_namespaced: Option<bool>,
}

impl KindType {
    /// `apiVersion` of its objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The text form: `apps/v1/Deployment`.
    pub(crate) fn text(&self) -> String {
        format!("{}/{}", self.api_version(), self.name)
    }
}

/// An object with known fields.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Segments of its name: `Team`, `spec`, `template`.
    pub(crate) path: Vec<String>,
    /// Description from the schema.
    pub(crate) doc: String,
    /// In the order of the schema. Without `apiVersion`, `kind` and `metadata`, for a kind.
    pub(crate) fields: Vec<Field>,
    /// Whether objects may have other members, too.
    pub(crate) is_open: bool,
    /// Index of [`Model::kinds`], if it is a kind.
    pub(crate) kind: Option<usize>,
}

impl Struct {
    /// Its path in another type, with a mark around names: `spec.template` of `Team`. `None` if it has its own name.
    pub(crate) fn place(&self, mark: &str) -> Option<String> {
        let (of, path) = self.path.split_first().filter(|(_, path)| !path.is_empty())?;
        Some(format!("{mark}{}{mark} of {mark}{of}{mark}", path.join(".")))
    }
}

/// A string with known values.
#[derive(Debug)]
pub(crate) struct Enum {
    /// Segments of its name.
    pub(crate) path: Vec<String>,
    /// The values, without duplicates.
    pub(crate) values: Vec<String>,
}

/// A member of an object.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in JSON.
    pub(crate) json: String,
    /// Description from the schema.
    pub(crate) doc: String,
    /// Its type.
    pub(crate) ty: Type,
    /// Whether it is required.
    pub(crate) is_required: bool,
    /// Whether it may be `null`.
    pub(crate) is_nullable: bool,
    /// Default set by the API server.
    pub(crate) default: Option<Value>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Text,
    Bool,
    I32,
    I64,
    U32,
    U64,
    F64,
    /// RFC 3339.
    Time,
    /// Base64.
    Bytes,
    IntOrString,
    /// Any JSON value.
    Any,
    /// Any JSON object.
    Object,
    /// `metadata` of an object, or of a template.
    ObjectMeta,
    /// A condition of a status, as `metav1.Condition`.
    Condition,
    List(Box<Type>),
    /// An object whose members all have this type.
    Map(Box<Type>),
    /// For an item of a list or a map: the type, or `null`.
    Nullable(Box<Type>),
    Struct(StructId),
    Enum(EnumId),
}

impl Model {
    /// Whether a struct contains itself through fields that are neither lists nor maps, starting with this field.
    pub(crate) fn is_recursive(&self, of: StructId, field: &Field) -> bool {
        let Type::Struct(first) = field.ty else { return false };
        let mut seen = vec![false; self.structs.len()];
        let mut next = vec![first];
        while let Some(id) = next.pop() {
            if id == of {
                return true;
            }
            if !std::mem::replace(&mut seen[id], true) {
                next.extend(self.structs[id].fields.iter().filter_map(|field| match field.ty {
                    Type::Struct(id) => Some(id),
                    _ => None,
                }));
            }
        }
        false
    }

    /// Whether any field, or item of one, has a matching type.
    pub(crate) fn uses(&self, fits: impl Fn(&Type) -> bool) -> bool {
        fn any(ty: &Type, fits: &impl Fn(&Type) -> bool) -> bool {
            fits(ty)
                || match ty {
                    Type::List(inner) | Type::Map(inner) | Type::Nullable(inner) => any(inner, fits),
                    _ => false,
                }
        }
        self.structs.iter().flat_map(|found| &found.fields).any(|field| any(&field.ty, &fits))
    }
}
