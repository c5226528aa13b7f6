//! Wants more writes than it may.

hostile::attack!(|_, _| hostile::writing(vec![hostile::create("hostile", r#"{"generateName":"flood-"}"#); 1_001]));
