import { alsoLeanInFull } from "../../lean.ts";

await alsoLeanInFull("pass/caught", "pass/after-failure", "pass/heard", "pass/late-answers");
