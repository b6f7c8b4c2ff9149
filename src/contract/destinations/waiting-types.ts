/**
 * The types whose lanes keep messages by design: until a batch is full, or until a consumer comes. The first page of the
 * dashboard needs no other fact about types, and all facts would be a twentieth of its size. A test compares them.
 */
export const waitingTypes: ReadonlySet<string> = new Set(['destination_object_store', 'destination_pull'])
