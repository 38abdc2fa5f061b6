-- Fixed window. State: the window's end, and the count in it.
-- Rule: kind, limit, window, scale, whether denied requests count, a cost and its rest, and by a
-- calendar the ends of this window and the next ones.
--
-- Kept as one integer, index of the window * scale + count, which INCRBY adds to: no other write
-- is as cheap, and the time to live stays as it is. What does not fit is packed.
local function fixed_window()
  local it = {}

  function it.read(rule, raw)
    if #raw == 15 then
      local tag, finish, count = struct.unpack('>c1I7I7', raw)
      if tag == 'w' then return finish, count end
    end
    local number = tonumber(raw)
    if not number then return nil end
    local index = floor(number / rule[4])
    return index * rule[3], number - index * rule[4]
  end

  -- When the window that contains `now` is over. Calendars are the caller's to know.
  local function end_of(rule, now)
    local window = rule[3]
    if #rule == 7 then return floor(now / window) * window + window end
    for i = 8, #rule do
      if rule[i] > now then return rule[i] end
    end
    return now + window
  end

  local function up_to(rule, now, finish, count)
    local window = rule[3]
    if finish <= now then return end_of(rule, now), 0 end
    -- The clock went back before the window began: the count stays for a whole window.
    if finish > now + window then return now + window, count end
    return finish, count
  end

  function it.take(rule, now, finish, count, _, cost)
    finish, count = up_to(rule, now, finish, count)
    return count + cost <= rule[2], finish, count + cost
  end

  function it.deny(rule, now, finish, count, _, cost)
    if rule[5] == 1 and cost <= rule[2] then
      finish, count = up_to(rule, now, finish, count)
      return true, finish, min(count + cost, 2e15)
    end
    if finish > now + rule[3] then return true, up_to(rule, now, finish, count) end
  end

  function it.give(rule, now, finish, count, _, amount)
    finish, count = up_to(rule, now, finish, count)
    return true, finish, max(0, count - amount)
  end

  function it.write(key, rule, now, raw, finish, count)
    local window, scale = rule[3], rule[4]
    local index = finish / window
    local number = index * scale + count
    if index ~= floor(index) or count >= scale or number > LARGEST then
      return keep(key, raw, struct.pack('>c1I7I7', 'w', finish, count), finish - now)
    end
    local before = raw and tonumber(raw)
    if before and floor(before / scale) == index then
      return call('INCRBY', key, number - before)
    end
    return keep(key, raw, string.format('%.0f', number), finish - now)
  end

  return it
end
