import { alsoLean } from "../../lean.ts";

await alsoLean("signals/waits", "signals/approve");
