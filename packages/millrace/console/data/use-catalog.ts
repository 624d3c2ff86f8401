import { get } from "./api.ts";
import { useData } from "./use-data.ts";

/** Not updated by events; loaded when the screen is opened. */
export function useCatalog() {
  return useData(
    () => get("/v1/catalog"),
    [],
    () => false,
  );
}
