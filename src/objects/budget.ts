import { DurableObject } from "cloudflare:workers";

export class Budget extends DurableObject<Env> {}
