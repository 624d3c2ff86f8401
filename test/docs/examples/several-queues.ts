import { defineQueue } from "millrace";

export const exportCommands = defineQueue({ name: "export-commands", partitions: 3, tenants: ["acme"] });
