/** Building blocks that several schemas use. */
import Type from 'typebox'

const described = (description?: string) => (description === undefined ? {} : { description })

export const closed = { additionalProperties: false } as const
export const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()])
/** A query parameter that is a point in time. A date means its start, in UTC. */
export const moment = Type.Union([Type.String({ format: 'date-time' }), Type.String({ format: 'date' })])
export const text = (maxLength = 1000, description?: string) =>
  Type.String({ minLength: 1, maxLength, ...described(description) })
export const string = (description: string) => Type.String({ description })
export const boolean = (description: string) => Type.Boolean({ description })
export const uuid = (description?: string) => Type.String({ format: 'uuid', ...described(description) })
export const timestamp = (description?: string) =>
  Type.String({ format: 'date-time', ...described(description) })
/** A whole number of at least 0. */
export const count = (description?: string) => Type.Integer({ minimum: 0, ...described(description) })
/** A whole number of at least 1. */
export const positive = (description?: string) => Type.Integer({ minimum: 1, ...described(description) })
export const anyObject = (description?: string) =>
  Type.Record(Type.String(), Type.Unknown(), described(description))

/** The number of entries in one response. */
export const pageSize = ({ default: usual, max }: { default: number; max: number }) =>
  Type.Integer({ minimum: 1, maximum: max, default: usual })

/** A query parameter of an operation. */
export function query<Name extends string, Schema extends Type.TSchema>(
  name: Name,
  schema: Schema,
  description: string,
) {
  return { in: 'query', name, schema, description } as const
}
