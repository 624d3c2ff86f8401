import { get } from "./api.ts";
import { useData } from "./use-data.ts";

/** Loads the catalog when a screen is opened. The catalog is not loaded again after an event. */
export function useCatalog() {
  return useData(
    () => get("/v1/catalog"),
    [],
    () => false,
  );
}
