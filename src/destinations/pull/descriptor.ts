/** Pull destinations: consumers fetch the messages, so there is nothing to dial. */
import type { DestinationDescriptor, DestinationSpec, PullSpec } from '../driver.ts'

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

export function isPullSpec<T extends DestinationSpec>(spec: T): spec is T & PullSpec {
  return spec.type === 'destination_pull'
}
