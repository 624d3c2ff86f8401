import { get } from "./api.ts";
import { useData } from "./use-data.ts";

/** Loads the catalog when a screen is opened. Events do not update the catalog. */
export function useCatalog() {
  return useData(
    () => get("/v1/catalog"),
    [],
    () => false,
  );
}
