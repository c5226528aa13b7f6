// Runs the cases that are the same in every language, with this folder's manifest.

import { checkCases } from "pintle/testing";

import { reconcile } from "./src/controller.ts";

checkCases(".", reconcile, { cases: "../../../../tests/errand/cases" });
