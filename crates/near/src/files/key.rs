//! validator_key.json and node_key.json (core/crypto/src/key_file.rs:8-53).

use serde::{Deserialize, Serialize};

use crate::{AccountId, KeyError, KeyPair, PublicKey};

/// A key with the account that it is for. Its public half must belong to its secret half.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "KeyFileText", into = "KeyFileText")]
pub struct KeyFile {
    /// Whose. A node key names `node` or nobody.
    pub account_id: Option<AccountId>,
    /// The key.
    pub key: KeyPair,
}

#[derive(Serialize, Deserialize)]
struct KeyFileText {
    account_id: String,
    public_key: PublicKey,
    #[serde(alias = "private_key")]
    secret_key: String,
}

#[derive(Debug, thiserror::Error)]
enum KeyFileError {
    #[error(transparent)]
    Account(crate::AccountIdError),
    #[error(transparent)]
    Key(KeyError),
    #[error("public key {public} does not belong to the secret key beside it, whose public key is {actual}")]
    Halves { public: PublicKey, actual: PublicKey },
}

impl TryFrom<KeyFileText> for KeyFile {
    type Error = KeyFileError;
    fn try_from(text: KeyFileText) -> Result<Self, KeyFileError> {
        let account_id = match text.account_id.as_str() {
            "" => None,
            id => Some(id.parse().map_err(KeyFileError::Account)?),
        };
        let key = KeyPair::from_secret_text(&text.secret_key).map_err(KeyFileError::Key)?;
        if key.public() != text.public_key {
            return Err(KeyFileError::Halves { public: text.public_key, actual: key.public() });
        }
        Ok(Self { account_id, key })
    }
}

impl From<KeyFile> for KeyFileText {
    fn from(file: KeyFile) -> Self {
        Self {
            account_id: file.account_id.map_or_else(String::new, |id| id.to_string()),
            public_key: file.key.public(),
            secret_key: file.key.secret_text(),
        }
    }
}
