import { alsoLeanInFull } from "../../lean.ts";

await alsoLeanInFull("pass/course", "pass/races", "pass/parallel", "pass/branches");
