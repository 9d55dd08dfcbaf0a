mod bad_input;
mod playing;
