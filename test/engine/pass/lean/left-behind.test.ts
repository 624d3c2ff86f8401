import { alsoLean } from "../../lean.ts";

await alsoLean("pass/left-behind");
