import { alsoLean } from "../../lean.ts";

await alsoLean("operate/held-waits");
