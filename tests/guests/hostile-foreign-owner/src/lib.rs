//! Creates objects for a controller that it does not play.

hostile::attack!(|_, _| {
    let owner = r#"{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"1-2-3","controller":true}"#;
    let metadata = format!(r#"{{"generateName":"intruder-","ownerReferences":[{owner}]}}"#);
    hostile::writing(vec![hostile::create("hostile", &metadata)])
});
