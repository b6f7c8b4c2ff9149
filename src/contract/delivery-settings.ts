/**
 * The name of a destination and its own delivery settings (docs/dev/contract.md#destinations). Every field is
 * optional. Null means the same as a missing field on create; on PATCH it resets the setting, and the name to the
 * default of its kind.
 */
import Type, { type Static } from 'typebox'
import { closed, nullable, string } from './schema-parts.ts'
import { destinationNamePattern } from './validate.ts'

const DestinationName = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: destinationNamePattern,
  description:
    'Unique in its pipe: commands refer to the destination as PIPE/NAME. Without a name, or with null, it is the type (`database`, `object-store`, `http-endpoint`, `nats`, `pull`), with -2, -3 … if that name is taken.',
})

export const DestinationFlush = Type.Object(
  {
    max_records: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    max_bytes: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    max_seconds: Type.Integer({ minimum: 0, maximum: 86_400 }),
  },
  {
    ...closed,
    description:
      'The first limit that is reached closes a batch. These limits override those of the pipe, which override the defaults of the type.',
  },
)
export type DestinationFlush = Static<typeof DestinationFlush>

export const DestinationRate = Type.Object(
  { requests_per_second: Type.Number({ minimum: 0.01, maximum: 100_000 }) },
  { ...closed, description: 'The maximum number of requests (statements, objects) started per second.' },
)
export type DestinationRate = Static<typeof DestinationRate>

export const maxConcurrency = 32
export const DestinationConcurrency = Type.Integer({
  minimum: 1,
  maximum: maxConcurrency,
  description:
    'HTTP endpoints and NATS: requests (messages) of one batch that are sent in parallel. More than 1 keeps order only between batches.',
})
export const defaultConcurrency = 1

export const onPermanentErrors = ['block', 'park'] as const
export type OnPermanentError = (typeof onPermanentErrors)[number]
export const OnPermanentError = Type.Enum([...onPermanentErrors], {
  default: 'block',
  description:
    'What a lane does when its destination rejects a record permanently. `block`: it stops there and retries every 5 minutes. `park`: it sets the rejected records aside (GET …/parked) and continues; not for pull destinations.',
})

/** The settings in responses: null where a destination has no value of its own. */
export const shownDeliverySettings = {
  destination_name: string('Unique in its pipe.'),
  flush: nullable(DestinationFlush),
  rate: nullable(DestinationRate),
} as const

/** The settings in requests, for every destination type. */
export const givenDeliverySettings = {
  destination_name: Type.Optional(nullable(DestinationName)),
  flush: Type.Optional(nullable(DestinationFlush)),
  rate: Type.Optional(nullable(DestinationRate)),
} as const

/** Pull destinations accept only `block`: a message that a consumer rejects is never parked. */
export const givenOnPermanentError = {
  on_permanent_error: Type.Optional(nullable(OnPermanentError)),
} as const

/** Only for HTTP endpoints and NATS. */
export const givenConcurrency = { concurrency: Type.Optional(nullable(DestinationConcurrency)) } as const

/** Null selects the default. A missing field is left unchanged. */
export type GivenDeliverySettings = { [Key in keyof DeliverySettings]?: DeliverySettings[Key] | null }

export interface DeliverySettings {
  destination_name: string
  flush: DestinationFlush | null
  rate: DestinationRate | null
  /** Null: the default. */
  concurrency: number | null
  on_permanent_error: OnPermanentError
}
