/** A pull destination: consumers come for its messages. */
import Type, { type Static } from 'typebox'
import { closed } from './fields.ts'

const ackModes = ['auto', 'explicit'] as const
const defaultLeaseSeconds = 30

export const PullConfig = Type.Object(
  {
    ack_mode: Type.Optional(Type.Enum([...ackModes], { default: 'auto' })),
    lease_seconds: Type.Optional(
      Type.Integer({
        minimum: 5,
        maximum: 600,
        default: defaultLeaseSeconds,
        description: 'With explicit ack: after this long without one the message is delivered again.',
      }),
    ),
  },
  closed,
)
export type PullConfig = Static<typeof PullConfig>

export interface ResolvedPullConfig {
  ack_mode: (typeof ackModes)[number]
  lease_seconds: number
}

export function resolvePullConfig(config: PullConfig): ResolvedPullConfig {
  return { ack_mode: config.ack_mode ?? 'auto', lease_seconds: config.lease_seconds ?? defaultLeaseSeconds }
}
