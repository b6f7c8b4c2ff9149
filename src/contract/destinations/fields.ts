/** Pieces that the config schemas share. */
import Type from 'typebox'

export const closed = { additionalProperties: false } as const
export const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()])
export const text = (maxLength = 1000, description?: string) =>
  Type.String({ minLength: 1, maxLength, ...(description === undefined ? {} : { description }) })
