import { ENGINE_TEXTS, type TextTable } from "../engine/index.ts";

/** The app's tables whose rows say something of people without being theirs. */
const APP_TEXTS: readonly TextTable[] = [
  { table: "webhook_deliveries", key: ["id"], texts: ["fact_id", "attempts"], order: ["endpoint_id", "matched_at", "id"] },
  { table: "batches", key: ["batch_id"], texts: ["cancel_reason"], order: ["created_at", "batch_id"] },
  { table: "batch_keys", key: ["batch_id", "key"], texts: ["key"], order: ["batch_id", "key"] },
  { table: "facts", key: ["entity", "sequence", "fact_id"], texts: ["fact_id", "body"], order: ["entity", "sequence", "fact_id"] },
];

/** Every table that is searched: what identifies a person is put out of its rows, and the rows stay. */
export const TEXT_TABLES: readonly TextTable[] = [...ENGINE_TEXTS, ...APP_TEXTS];

/** Tables with a row for each person, or of what is on its way of one: it goes as a whole. */
export const PERSON_TABLES = ["contacts", "crm_links", "crm_failures", "crm_sends", "forgettings"] as const;
