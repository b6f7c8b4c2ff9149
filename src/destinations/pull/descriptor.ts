/** Pull destinations: consumers come for the messages, so there is nothing to dial. */
import type { DestinationDescriptor, PullSpec } from '../driver.ts'

export const pull: DestinationDescriptor<PullSpec> = {
  type: 'destination_pull',
  rules: () => [],
  targets: () => [],
  attemptLimitMs: () => 0,
  requestsPerBatch: () => 1,
  isTransactional: false,
  isExactlyOnce: () => false,
  secrets: () => [],
  load: async () => (await import('./driver.ts')).pull,
}
