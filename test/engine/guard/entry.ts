import { rows } from "../harness.ts";

export const entry = (id: string) =>
  rows<{ state: string; epoch: number; output: string }>(
    "SELECT state, epoch, output FROM millrace_inbox WHERE instance_id = ?1 ORDER BY generation",
    id,
  );
