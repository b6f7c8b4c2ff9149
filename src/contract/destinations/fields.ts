/** Building blocks that several schemas use. */
import Type from 'typebox'

export const closed = { additionalProperties: false } as const
export const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()])
/** A query parameter that is a point in time. A date means its start, in UTC. */
export const moment = Type.Union([Type.String({ format: 'date-time' }), Type.String({ format: 'date' })])
export const text = (maxLength = 1000, description?: string) =>
  Type.String({ minLength: 1, maxLength, ...(description === undefined ? {} : { description }) })
