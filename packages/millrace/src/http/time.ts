export { iso, isoOrNull, timestamp } from "../contract/row.ts";
