mod daemons;
mod deployments;
mod jobs;
mod sets;
mod stateful;
