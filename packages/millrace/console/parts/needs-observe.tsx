import { useCell } from "../data/cell.ts";
import { session } from "../data/session.ts";
import { Empty } from "./empty.tsx";

export function NeedsObserve({ what }: { what: string }) {
  const { caller } = useCell(session);
  const command = `npm run -s token -- --tenant ${caller?.tenant} --actor you --scopes read,operate,observe --days 90`;
  return <Empty command={command}>{what} for the whole deployment, over all tenants. This needs a token with the scope observe.</Empty>;
}
