-- Exact arithmetic in doubles. All compared and stored values are whole numbers below 2^53, except for
-- a bucket's integer, which combines two of them.
local HALF = 33554432
local WHOLE = HALF * HALF

-- a * b, as a high and a low part of 50 bits.
local function product(a, b)
  local ah, bh = floor(a / HALF), floor(b / HALF)
  local al, bl = a - ah * HALF, b - bh * HALF
  local middle = ah * bl + al * bh
  local carried = floor(middle / HALF)
  local low = (middle - carried * HALF) * HALF + al * bl
  local over = floor(low / WHOLE)
  return ah * bh + carried + over, low - over * WHOLE
end

-- Whether a * b <= c * d.
local function at_most(a, b, c, d)
  local ab, cd = a * b, c * d
  if ab <= LARGEST and cd <= LARGEST then return ab <= cd end
  local high, low = product(a, b)
  local other_high, other_low = product(c, d)
  return high < other_high or (high == other_high and low <= other_low)
end

-- A number, if it is written as INCRBY writes it.
local function whole(raw)
  local number = raw:find('^[1-9]%d*$') and tonumber(raw)
  if number and number <= LARGEST then return number end
end

-- Three numbers as a string: an instant of seven bytes, and two others in as few as they need.
-- Short strings matter: with eleven bytes a key takes a smaller block of memory.
local function pack_three(a, b, c)
  local largest = max(b, c)
  if largest < 65536 then return pack('>I7I2I2', a, b, c) end
  if largest < 4294967296 then return pack('>I7I4I4', a, b, c) end
  return pack('>I7I7I7', a, b, c)
end

local THREE = { [11] = '>I7I2I2', [15] = '>I7I4I4', [21] = '>I7I7I7' }

-- Unpacks what `pack_three` made; nil for anything else.
local function unpack_three(packed)
  local format = THREE[#packed]
  if format then return parse(format, packed) end
end
