import { alsoLeanInFull } from "../../lean.ts";

await alsoLeanInFull("workflow/still-at-work");
