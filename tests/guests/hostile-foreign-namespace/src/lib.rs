//! Writes where it may not.

hostile::attack!(|_, _| hostile::writing(vec![hostile::create("calm", r#"{"generateName":"intruder-"}"#)]));
