//! Plain data: what the tools speak about. No system calls, no decisions.

pub(crate) mod address;
pub(crate) mod agent_profile;
pub(crate) mod ancestor;
pub(crate) mod arbiter;
pub(crate) mod claim;
pub(crate) mod duration;
pub(crate) mod event;
pub(crate) mod hook_words;
pub(crate) mod host;
pub(crate) mod identity;
pub(crate) mod labels;
pub(crate) mod lease;
pub(crate) mod mark;
pub(crate) mod marker;
pub(crate) mod moment;
pub(crate) mod name;
pub(crate) mod observation;
pub(crate) mod place;
pub(crate) mod record;
pub(crate) mod secret_text;
pub(crate) mod stage;
pub(crate) mod stamp;
pub(crate) mod terminal;
pub(crate) mod ticket;
pub(crate) mod time;
pub(crate) mod token;
