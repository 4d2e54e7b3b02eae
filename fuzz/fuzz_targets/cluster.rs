#![cfg_attr(feature = "libfuzzer", no_main)]
sandtable_fuzz::target!("cluster");
