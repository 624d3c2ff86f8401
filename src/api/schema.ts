import type { Schema } from "millrace/http";

/** The migrations of the app, each with the last table, index or column that it makes, for `/healthz`. The engine has its own list. */
export const schema: Schema = { "0001_app": "webhook_endpoints" };
