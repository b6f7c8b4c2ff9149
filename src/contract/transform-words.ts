/**
 * The steps that a transform can have, and the path of its secret. Free of schemas, because programs and pages use it
 * too.
 */

export const transformOps = ['rename', 'drop', 'keep', 'mask', 'constant', 'move'] as const
export type TransformOp = (typeof transformOps)[number]

/** The path of the transform's secret among the secrets of a destination. */
export const maskSaltPlace = 'transform.mask_salt'
