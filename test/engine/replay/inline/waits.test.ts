import { alsoInline } from "../../inline.ts";

await alsoInline("signals/waits", "signals/approve");
