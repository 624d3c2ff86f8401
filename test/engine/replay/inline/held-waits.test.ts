import { alsoInline } from "../../inline.ts";

await alsoInline("operate/held-waits");
