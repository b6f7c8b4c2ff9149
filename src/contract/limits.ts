/** Per-pipe limits. Rules: spec "Pipe limits". A pipe without a row has no ingest limits and the type's default flush plan. */
import Type, { type Static } from 'typebox'

const atLeastOne = () => Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

export const PipeLimits = Type.Object(
  {
    pl_ingest_max_records_per_request: atLeastOne(),
    pl_ingest_max_records_per_second: atLeastOne(),
    pl_ingest_max_records_per_day: atLeastOne(),
    pl_ingest_max_bytes_per_day: Type.Optional(Type.Union([atLeastOne(), Type.Null()])),
    pl_delivery_max_records_per_flush: atLeastOne(),
    pl_delivery_max_bytes_per_flush: atLeastOne(),
    pl_delivery_max_seconds_per_flush: atLeastOne(),
  },
  { additionalProperties: false },
)
/** As stored and shown: `pl_ingest_max_bytes_per_day` is null when there is no cap. */
export type PipeLimits = Required<Static<typeof PipeLimits>>
