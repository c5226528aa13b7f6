//! Write access to a file or a folder, by owner and mode: only root and the host's own user may change what the host
//! runs.
//!
//! Not here: reading the owner and mode from the file system.

/// Write permission of the group and of others.
const WRITABLE: u32 = 0o022;
/// Only owners may rename and remove entries of the folder.
const STICKY: u32 = 0o1000;

/// Owner and permissions of a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAccess {
    /// User id of the owner.
    pub owner: u32,
    /// Permission bits.
    pub mode: u32,
}

/// Why users other than root and the host's user can change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangedBy {
    /// The owner is another user.
    #[error("it belongs to user {owner}; `chown` it to user {user} or root")]
    Owner {
        /// User id of the owner.
        owner: u32,
        /// User id of the host.
        user: u32,
    },
    /// The permissions allow other users to write.
    #[error("other users may write to it (mode {mode:o}); `chmod go-w` it")]
    Others {
        /// The permission bits.
        mode: u32,
    },
}

impl FileAccess {
    /// Checks that only root and `user` may change the content.
    ///
    /// # Errors
    /// Returns who else may change it.
    pub fn check(self, user: u32) -> Result<(), ChangedBy> {
        self.check_owner(user)?;
        let mode = self.mode & 0o7777;
        if mode & WRITABLE == 0 { Ok(()) } else { Err(ChangedBy::Others { mode }) }
    }

    /// Checks a parent folder: only root and `user` may replace its entries. In a sticky folder, only the owner of an
    /// entry may replace it.
    ///
    /// # Errors
    /// Returns who else may change it.
    pub fn check_ancestor(self, user: u32) -> Result<(), ChangedBy> {
        if self.mode & STICKY != 0 { self.check_owner(user) } else { self.check(user) }
    }

    fn check_owner(self, user: u32) -> Result<(), ChangedBy> {
        let owner = self.owner;
        if owner == 0 || owner == user { Ok(()) } else { Err(ChangedBy::Owner { owner, user }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_hosts_user_may_change_a_file() {
        let check = |owner, mode| FileAccess { owner, mode }.check(7).map_err(|why| why.to_string());
        assert_eq!((check(7, 0o100_600), check(0, 0o100_755)), (Ok(()), Ok(())));
        assert_eq!(check(8, 0o600), Err("it belongs to user 8; `chown` it to user 7 or root".to_owned()));
        for mode in [0o020, 0o002, 0o777, 0o1777] {
            let why = format!("other users may write to it (mode {mode:o}); `chmod go-w` it");
            assert_eq!(check(7, 0o40_000 | mode), Err(why));
        }
    }

    #[test]
    fn entries_of_a_sticky_folder_belong_to_their_owners() {
        let check = |owner, mode| FileAccess { owner, mode }.check_ancestor(7).is_ok();
        assert!(check(0, 0o41_777) && check(0, 0o40_755) && check(7, 0o40_700));
        assert!(!check(0, 0o40_777) && !check(8, 0o41_777) && !check(8, 0o40_755));
    }
}
