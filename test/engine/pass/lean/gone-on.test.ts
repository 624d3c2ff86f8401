import { alsoLean } from "../../lean.ts";

await alsoLean("pass/gone-on", "pass/kept-caught");
