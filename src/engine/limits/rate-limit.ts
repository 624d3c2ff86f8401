import { DurableObject } from "cloudflare:workers";

/** One upstream's limit, shared by all who call it: under construction. */
export class RateLimit extends DurableObject {}
