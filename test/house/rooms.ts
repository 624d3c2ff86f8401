const SYSTEMS = ["brand", "content", "facts", "crm", "webhooks", "batches", "privacy"].map((name) => `systems/${name}`);

/** The permitted imports of every source folder of the engine. */
const CORE = ["engine/contract", "engine/store"];

/**
 * A source folder ("room"), and the folders it may import from. A folder of the engine is named by its own name; so are the folders of the
 * app.
 */
export const MAY_IMPORT: Record<string, readonly string[]> = {
  "engine/contract": [],
  "engine/store": ["engine/contract"],
  // Instances that have moved from D1 to R2.
  "engine/archive": CORE,
  "engine/recorder": ["engine/contract", "engine/store", "engine/signals", "engine/lanes", "engine/observe"],
  "engine/observe": CORE,
  // A replay's state; the attempt of an effect; the code's steps on the platform.
  "engine/replay": ["engine/contract", "engine/store", "engine/recorder", "engine/observe"],
  "engine/guard": ["engine/contract", "engine/store", "engine/recorder", "engine/observe", "engine/replay"],
  "engine/workflow": [
    "engine/contract",
    "engine/store",
    "engine/signals",
    "engine/observe",
    "engine/replay",
    "engine/guard",
    "engine/lanes",
  ],
  "engine/signals": ["engine/contract", "engine/store"],
  "engine/topology": ["engine/contract", "engine/store", "engine/workflow", "engine/lanes"],
  "engine/intake": [...CORE, "engine/recorder", "engine/workflow", "engine/signals", "engine/topology", "engine/observe"],
  // The report of a run's end to the callback address in its command, by a workflow of the engine.
  "engine/callbacks": [...CORE, "engine/recorder", "engine/guard", "engine/workflow", "engine/intake", "engine/limits"],
  // Notifications of operators, also by a workflow of the engine.
  "engine/alerts": [...CORE, "engine/recorder", "engine/guard", "engine/workflow", "engine/topology", "engine/callbacks", "engine/observe"],
  "engine/access": ["engine/contract", "engine/store", "engine/topology"],
  "engine/inspect": [
    "engine/alerts",
    "engine/archive",
    "engine/callbacks",
    ...CORE,
    "engine/replay",
    "engine/guard",
    "engine/signals",
    "engine/intake",
    "engine/access",
    "engine/lanes",
    "engine/observe",
    "engine/pull",
    "engine/topology",
  ],
  "engine/operate": [
    ...CORE,
    "engine/archive",
    "engine/recorder",
    "engine/replay",
    "engine/guard",
    "engine/signals",
    "engine/intake",
    "engine/topology",
    "engine/access",
    "engine/inspect",
    "engine/lanes",
    "engine/observe",
    "engine/pull",
    "engine/workflow",
  ],
  "engine/erase": [...CORE, "engine/archive", "engine/lanes", "engine/locks"],
  "engine/limits": ["engine/contract", "engine/store"],
  "engine/lanes": ["engine/contract"],
  "engine/counters": ["engine/contract"],
  "engine/locks": ["engine/contract", "engine/store"],
  // Lanes with messages that the engine itself consumes.
  "engine/turns": ["engine/contract", "engine/store", "engine/intake", "engine/topology", "engine/lanes"],
  "engine/pull": ["engine/contract", "engine/store", "engine/observe"],
  "engine/rooms": ["engine/contract", "engine/store"],
  "engine/schedules": ["engine/contract", "engine/store", "engine/intake", "engine/topology", "engine/access", "engine/operate"],
  // Comparison of records: it repairs through the functions of the folders that own them.
  "engine/reconcile": [
    "engine/contract",
    "engine/store",
    "engine/intake",
    "engine/topology",
    "engine/operate",
    "engine/lanes",
    "engine/locks",
  ],
  "engine/keeper": [
    "engine/alerts",
    "engine/archive",
    "engine/callbacks",
    "engine/reconcile",
    "engine/schedules",
    "engine/topology",
    "engine/contract",
    "engine/store",
    "engine/recorder",
    "engine/guard",
    "engine/signals",
    "engine/intake",
    "engine/operate",
    "engine/observe",
    "engine/lanes",
  ],
  "engine/http": [
    ...CORE,
    "engine/archive",
    "engine/callbacks",
    "engine/intake",
    "engine/access",
    "engine/inspect",
    "engine/operate",
    "engine/schedules",
    "engine/limits",
    "engine/locks",
    "engine/topology",
    "engine/keeper",
    "engine/lanes",
    "engine/pull",
    "engine/rooms",
    "engine/observe",
  ],
  "engine/testing": [...CORE, "engine/keeper", "engine/observe", "engine/recorder", "engine/intake", "engine/topology", "engine/workflow"],
  "engine/check": ["engine/contract", "engine/inspect", "engine/replay", "engine/store", "engine/workflow"],
  // The app uses the engine's entry points, as an npm user would.
  messages: ["engine"],
  // The business systems of the chains: one folder each, with its objects. A system shared by several is listed before them.
  "systems/contacts": ["engine", "messages"],
  "systems/brand": ["engine", "messages", "systems/contacts", "systems"],
  "systems/content": ["engine", "messages", "providers", "systems/brand"],
  "systems/facts": ["engine", "messages", "systems/contacts", "systems"],
  "systems/crm": ["engine", "messages", "providers", "systems/contacts", "systems/facts"],
  "systems/webhooks": ["engine", "messages", "systems/facts"],
  "systems/batches": ["engine", "messages", "systems/contacts", "systems/facts"],
  "systems/privacy": [
    "engine",
    "messages",
    "providers",
    "systems/contacts",
    "systems/brand",
    "systems/facts",
    "systems/crm",
    "systems/webhooks",
    "systems/batches",
  ],
  // The ports reach the embedded programs through a binding. The programs sign and count by the rules that their ports expect of the real
  // ones.
  providers: ["engine"],
  embedded: ["engine", "providers"],
  steps: ["engine", "messages", "providers", ...SYSTEMS],
  workflows: ["engine", "messages", "steps", ...SYSTEMS],
  consumers: ["engine", "messages", "workflows", "systems/content", "systems/facts", "systems/crm", "systems/webhooks"],
  api: ["engine", "messages", "providers", "embedded", "systems", "systems/contacts", ...SYSTEMS],
  // The command line and the console import only the API's types: they use HTTP.
  cli: [],
  console: [],
};

/**
 * Files that a folder may import from an otherwise forbidden folder. The command line writes database rows, parses input and recognizes an
 * engine as the engine does, and suggests names by one rule. The command line and the console explain verdicts in the engine's words.
 */
export const MAY_IMPORT_FILES: Record<string, readonly string[]> = {
  cli: [
    ...["contract/sql", "contract/token", "contract/nearest", "contract/limits", "contract/engine-header", "contract/plan-verdicts"],
    ...[
      "store/tokens",
      "store/actions",
      "store/cells",
      "store/moved",
      "store/audit-opened",
      "store/instances/look",
      "store/instances/status",
    ],
  ].map((file) => `engine/${file}.ts`),
  console: ["engine/contract/plan-verdicts.ts"],
};

/** Folders that may import only the types of other folders. */
export const MAY_IMPORT_TYPES: Record<string, readonly string[]> = {
  cli: ["engine", "engine/http", "engine/check"],
  console: ["engine/http"],
};

/** Restricted entry points, with the folders that may use them. */
export const DOOR_FOR: Record<string, readonly string[]> = { "millrace/http": ["api", "console"], "millrace/testing": [] };
