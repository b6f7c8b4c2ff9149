/**
 * Facts about the lanes of destination types for the first page of the dashboard. The tables of the fields are too large for
 * it. A test compares them.
 */
import type { DestinationType } from '../destination-words.ts'

/** Consumers fetch the messages: nothing is retried. */
export const pulledTypes: ReadonlySet<DestinationType> = new Set(['destination_pull'])
/** Messages wait on purpose, until a batch is complete. */
export const waitingTypes: ReadonlySet<DestinationType> = new Set(['destination_object_store'])
