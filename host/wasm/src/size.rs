//! Sizes of the data passed between host and guest.

use std::sync::Arc;

use crate::contract::{types, view};

/// Number of bytes passed. Only texts count, because the number of structures around them is bounded.
pub(crate) trait Size {
    fn n_bytes(&self) -> usize;
}

impl Size for u32 {
    fn n_bytes(&self) -> usize {
        4
    }
}

impl Size for f64 {
    fn n_bytes(&self) -> usize {
        8
    }
}

impl Size for String {
    fn n_bytes(&self) -> usize {
        self.len()
    }
}

impl Size for Arc<str> {
    fn n_bytes(&self) -> usize {
        self.len()
    }
}

impl<T: Size> Size for Option<T> {
    fn n_bytes(&self) -> usize {
        self.as_ref().map_or(0, Size::n_bytes)
    }
}

impl<T: Size> Size for Vec<T> {
    fn n_bytes(&self) -> usize {
        // Each element costs a pointer and a length.
        self.iter().map(|item| item.n_bytes() + 8).sum()
    }
}

impl<T: Size, E: Size> Size for Result<T, E> {
    fn n_bytes(&self) -> usize {
        match self {
            Ok(value) => value.n_bytes(),
            Err(error) => error.n_bytes(),
        }
    }
}

impl Size for view::ApiError {
    fn n_bytes(&self) -> usize {
        self.reason.len() + self.message.len()
    }
}

impl Size for view::ApiResource {
    fn n_bytes(&self) -> usize {
        self.kind.group.len()
            + self.kind.name.len()
            + self.plural.len()
            + self.verbs.n_bytes()
            + self.subresources.n_bytes()
    }
}

impl Size for view::MutationFailure {
    fn n_bytes(&self) -> usize {
        self.reason.len() + self.message.len() + self.causes.n_bytes()
    }
}

impl<A: Size, B: Size> Size for (A, B) {
    fn n_bytes(&self) -> usize {
        self.0.n_bytes() + self.1.n_bytes()
    }
}

impl<T: Size + ?Sized> Size for &T {
    fn n_bytes(&self) -> usize {
        (**self).n_bytes()
    }
}

impl Size for types::Kind {
    fn n_bytes(&self) -> usize {
        self.group.len() + self.version.len() + self.name.len()
    }
}

impl Size for types::ObjectKey {
    fn n_bytes(&self) -> usize {
        self.namespace.len() + self.name.len()
    }
}

impl Size for view::Query {
    fn n_bytes(&self) -> usize {
        let owner = self.owner.as_ref().map_or(0, |owner| match owner {
            view::OwnedBy::Controller(uid) | view::OwnedBy::ControllerOrOrphan(uid) | view::OwnedBy::Any(uid) => {
                uid.len()
            }
        });
        let index = self.index.as_ref().map_or(0, |index| index.index.len() + index.value.len());
        self.namespace.n_bytes() + self.label_selector.n_bytes() + owner + index
    }
}

impl Size for types::Need {
    fn n_bytes(&self) -> usize {
        match self {
            Self::LiveObject(live) => live.kind.n_bytes() + live.object.n_bytes() + live.subresource.n_bytes(),
            Self::LiveList(live) => {
                let selectors = live.label_selector.n_bytes() + live.field_selector.n_bytes();
                live.kind.n_bytes() + live.namespace.len() + selectors
            }
            Self::RawPath(path) => path.len(),
            Self::Discovery => 0,
            Self::Review(review) => review.kind.n_bytes() + review.namespace.len() + review.object.len(),
            Self::SignJwt(sign) => sign.key.len() + sign.claims.len(),
            Self::SignCertificate(sign) => {
                let texts = [&sign.authority, &sign.request, &sign.not_before, &sign.not_after];
                texts.map(Size::n_bytes).iter().sum::<usize>() + sign.usages.n_bytes()
            }
            Self::Call(call) => call.endpoint.len() + call.operation.len() + call.body.len(),
        }
    }
}
