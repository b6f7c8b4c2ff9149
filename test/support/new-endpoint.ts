/** A destination as management stores it, for lanes whose driver is the tests' own: nothing listens at its address. */
import type { NewDestination } from '../../src/metadata/destinations.ts'

export const newEndpoint: NewDestination = {
  destination_type: 'destination_http_endpoint',
  destination_max_retry_seconds: 86_400,
  destination_config: { url: 'http://127.0.0.1:9/' },
  columns: [],
  startAfterSeq: 0,
}
