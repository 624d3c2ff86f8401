import { DurableObject } from "cloudflare:workers";

export class ContactBook extends DurableObject<Env> {}
