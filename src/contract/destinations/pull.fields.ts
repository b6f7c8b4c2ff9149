/** A pull destination: consumers fetch its messages. */
import type { TypeFacts } from './type-facts.ts'

export const pull = {
  kind: 'pull',
  title: 'Pull',
  summary: 'Nothing is sent: consumers fetch the messages.',
  guides: [['pull.md', 'Pull consumers']],
  examples: ['pipectl destinations create orders --type pull --start-from earliest'],
  fields: {
    ack_mode: {
      kind: 'choice',
      label: 'Acknowledgement',
      hint: 'When a message counts as done.',
      options: {
        auto: 'as soon as the message is handed over',
        explicit: 'when the consumer acknowledges it',
      },
      default: 'auto',
    },
    lease_seconds: {
      kind: 'integer',
      label: 'Acknowledgement timeout (seconds)',
      hint: 'With ack_mode explicit: an unacknowledged message is delivered again after this time.',
      minimum: 5,
      maximum: 600,
      default: 30,
    },
  },
  hasColumns: false,
  isDatabase: false,
  hasServerKey: false,
  isTableFile: false,
  hasConcurrency: false,
  isPulled: true,
  receiver: 'destination',
  defaultFlush: { maxRecords: 1, maxBytes: 1, maxSeconds: 0 },
  target: ({ ack_mode }) => (ack_mode === 'explicit' ? 'pull, explicit ack' : 'pull'),
  targetKey: () => [],
  server: () => null,
  shownServer: () => '',
} as const satisfies TypeFacts
