/** Allowed browser origins of a pipe. Rules: spec "Allowed origin". */
import Type, { type Static } from 'typebox'

export const originPattern = '^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$'

export const OriginCreate = Type.Object(
  {
    origin_domain: Type.String({
      minLength: 1,
      maxLength: 300,
      pattern: originPattern,
      description: 'scheme://host[:port], no path',
    }),
  },
  { additionalProperties: false },
)
export type OriginCreate = Static<typeof OriginCreate>

export const AllowedOrigin = Type.Object({
  pipe_allowed_origin_id: Type.String({ format: 'uuid' }),
  origin_domain: Type.String(),
})
